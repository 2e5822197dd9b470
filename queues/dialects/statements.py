"""What a dialect carries out for the modules above it."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import CompoundSelect, Delete, Insert, Select, Update

#: A constant of its module, because it is compiled once.
Executed = Select[Any] | CompoundSelect[Any] | Insert | Update | Delete
#: With the values of its columns and bind parameters: numbers, texts and bytes.
Statement = tuple[Executed, Mapping[str, object]]
