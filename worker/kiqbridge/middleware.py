"""Middleware for those who write their own: the chain, and the types of its entries (docs/how_to/middleware.md)."""

from kiqbridge.client.middleware import Chain, ClientMiddleware, ServerMiddleware

__all__ = ["Chain", "ClientMiddleware", "ServerMiddleware"]
