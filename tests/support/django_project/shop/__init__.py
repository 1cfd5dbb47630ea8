"""A Django project with one application, for the tests."""
