"""The screens, a module each with its `ROUTES`; `web/app.py` lists them."""
