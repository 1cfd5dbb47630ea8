"""The screens, a module each with its `ROUTES`; `web/routes.py` lists them."""
