"""Typed asynchronous and synchronous clients, one module an API."""
