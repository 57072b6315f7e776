"""What docstrings say about a function and its parameters, in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import inspect
import re

_SECTION = re.compile(r"(Args|Arguments|Parameters|Returns?|Yields?|Raises|Examples?|Notes?|Attributes|See Also):?\s*$")
_PARAMETERS = ("Args", "Arguments", "Parameters", "Attributes")
_GOOGLE = re.compile(r"\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.*)$")
_NUMPY = re.compile(r"(\w+)\s*(?::.*)?$")
_SPHINX = re.compile(r":param\s+(?:[^:]*\s)?(\w+):\s*(.*)$")


def read(text: str | None) -> tuple[str, dict[str, str]]:
    """The description, and the description of each parameter."""
    lines = inspect.cleandoc(text or "").splitlines()
    words: list[str] = []
    parameters: dict[str, str] = {}
    at = 0
    while at < len(lines):
        line = lines[at]
        section = _SECTION.match(line)
        sphinx = _SPHINX.match(line)
        if section and (line.rstrip().endswith(":") or _is_underlined(lines, at)):
            end = _end_of_section(lines, at + 1)
            if section.group(1) in _PARAMETERS:
                parameters.update(_read_section(lines[at + 1 : end]))
            at = end
            continue
        if sphinx:
            parameters[sphinx.group(1)] = sphinx.group(2).strip()
        elif not line.startswith((":return", ":raise", ":rtype", ":type")):
            words.append(line)
        at += 1
    return _join(words), parameters


def _is_underlined(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and bool(re.match(r"-{3,}\s*$", lines[at + 1]))


def _end_of_section(lines: list[str], at: int) -> int:
    """Where what is not indented begins again (Google), or the next underlined heading (NumPy)."""
    is_numpy = at < len(lines) and bool(re.match(r"-{3,}\s*$", lines[at]))
    for number in range(at + int(is_numpy), len(lines)):
        line = lines[number]
        if is_numpy and _is_underlined(lines, number):
            return number
        if not is_numpy and line and not line[0].isspace():
            return number
    return len(lines)


def _read_section(lines: list[str]) -> dict[str, str]:
    is_numpy = bool(lines) and bool(re.match(r"-{3,}\s*$", lines[0]))
    pattern = _NUMPY if is_numpy else _GOOGLE
    body = lines[1:] if is_numpy else lines
    margin = min((_indent(line) for line in body if line.strip()), default=0)
    found: dict[str, str] = {}
    name: str | None = None
    for line in body:
        match = pattern.match(line) if line.strip() and _indent(line) == margin else None
        if match:
            name = str(match.group(1))
            found[name] = "" if is_numpy else match.group(2).strip()
        elif name is not None and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    return found


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _join(lines: list[str]) -> str:
    """Paragraphs, each on one line."""
    text = "\n".join(lines).strip()
    return "\n\n".join(" ".join(part.split()) for part in re.split(r"\n\s*\n", text)) if text else ""
