"""The screens, a module each; `web/app.py` has their addresses."""
