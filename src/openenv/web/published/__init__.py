"""The published package's module `web_interface`: its classes and functions around the page."""
