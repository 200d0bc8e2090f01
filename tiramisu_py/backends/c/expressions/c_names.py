"""Names in C: the user's names, unless C, its library or the runtime already uses them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from tiramisu_py.algorithm.reserved import PARTS, has_own_form, is_taken_inside

#: Suffixes that generated code appends to an array's name to make its own names.
DERIVED = ("_bytes", "_copies", "_own", "_slot", "_elements")


def c_names(names: Iterable[str], function: str, reserved: Collection[str] = ()) -> Mapping[str, str]:
    """A C identifier for each name: the name itself if it is allowed in C and not `reserved`."""
    ordered = list(dict.fromkeys(names))
    used = {function, "wrong", *reserved, *(function + part for part in PARTS)}
    used |= {_identifier(name) + part for name in ordered for part in DERIVED}
    found: dict[str, str] = {}
    for name in sorted(ordered, key=lambda n: (_identifier(n) != n or is_taken_inside(n), ordered.index(n))):
        candidate = _identifier(name)
        if has_own_form(candidate):
            candidate = f"n_{candidate}"
        while is_taken_inside(candidate) or candidate in used:
            candidate += "_"
        used.add(candidate)
        found[name] = candidate
    return found


def _identifier(name: str) -> str:
    text = re.sub(r"[^0-9A-Za-z_]", lambda match: f"u{ord(match.group()):x}", name.replace("@gpu", "_gpu"))
    return f"n{text}" if not text or text[0].isdigit() or text[0] == "_" else text
