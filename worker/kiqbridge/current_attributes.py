"""Values that travel with a job, as Rails' CurrentAttributes and I18n do (docs/how_to/middleware.md)."""

from kiqbridge.features.current_attributes.middleware import persist, persist_locale

__all__ = ["persist", "persist_locale"]
