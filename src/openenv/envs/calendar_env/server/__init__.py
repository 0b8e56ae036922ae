"""The server of the calendars."""
