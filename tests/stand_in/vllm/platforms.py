"""The one name that the warm process asks for."""

from types import SimpleNamespace

current_platform = SimpleNamespace(device_type="none")
