"""Lets message classes be written in the dataclass idiom while pydantic keeps validating them.

`@dataclass class YourAction(Action): value: int` works: the decorator finds an `__init__` already in the class
and leaves it alone, and `dataclasses.fields()` lists the fields of every message class, decorated or not.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo


def _message_init() -> Callable[..., None]:
    def __init__(self: BaseModel, /, *args: Any, **data: Any) -> None:
        if args:
            data = {**_named(type(self), args), **data}
        self.__pydantic_validator__.validate_python(data, self_instance=self)

    # pydantic then validates straight into the instance instead of calling this function for each message.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]
    return __init__


def _named(cls: type[BaseModel], args: tuple[Any, ...]) -> dict[str, Any]:
    """Names for the positional arguments that the dataclass decorator allows."""
    names = [field.name for field in dataclasses.fields(cls) if not field.kw_only]
    if len(args) > len(names):
        takes = f"at most {len(names)} positional arguments ({', '.join(names)})" if names else "keyword arguments only"
        raise TypeError(f"{cls.__name__} takes {takes}, {len(args)} were given")
    return dict(zip(names, args, strict=False))


def _dataclass_field(name: str, info: FieldInfo) -> "dataclasses.Field[Any]":
    default: Any = dataclasses.MISSING if info.is_required() or info.default_factory else info.default
    field: dataclasses.Field[Any] = dataclasses.field(kw_only=True)
    field.default = default
    if info.default_factory is not None:
        field.default_factory = info.default_factory  # type: ignore[assignment]
    field.name = name
    field.type = info.annotation
    field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
    return field


@dataclasses.dataclass
class _Plain:
    """A real dataclass, to borrow the parameters that the decorator looks for in its bases."""


class DataclassIdiom(BaseModel):
    """Base of every message: a pydantic model that `@dataclass` may decorate and `dataclasses.fields()` can list."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "__init__" not in cls.__dict__:
            cls.__init__ = _message_init()  # type: ignore[method-assign]
        super().__init_subclass__(**kwargs)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        fields = {name: _dataclass_field(name, info) for name, info in cls.model_fields.items()}
        cls.__dataclass_fields__ = fields
        cls.__dataclass_params__ = _Plain.__dataclass_params__  # type: ignore[attr-defined]
