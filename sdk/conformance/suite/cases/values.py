"""Data that programs get wrong: unicode, big integers, odd names."""

UNICODE = [
    "",
    "plain",
    'quotes " and \\ backslashes / slashes',
    "control \u0000 \u0001 \b \t \n \r \u001f \u007f",
    "ä ö ü ß é ñ",
    "日本語 한국어 中文",
    "עברית العربية",
    "e\u0301 combining, zero\u200bwidth, \ufeff mark",
    "line \u2028 and paragraph \u2029 separators",
    "🙂 👩‍👩‍👧‍👦 🏳️‍🌈 𝔘𝔫𝔦𝔠𝔬𝔡𝔢 \U0010ffff",
    "\ud7ff \ue000 \uffff",
]

INTEGERS = [
    0,
    -1,
    2**31,
    2**53 - 1,
    2**53,
    2**53 + 1,
    -(2**53) - 1,
    1234567890123456,
    12345678901234567890,
    2**63,
    -(2**63),
    2**64 - 1,
    2**64,
    10**40 + 7,
    -(10**40) - 7,
]

NAMES = {
    "": 1,
    "__proto__": {"polluted": True},
    "constructor": 2,
    "toString": 3,
    "hasOwnProperty": 4,
    "then": 5,
    "toJSON": 6,
    "length": 7,
    "日本": 8,
    "🙂": 9,
    "12345678901234567890": "a text of digits, 98765432109876543210",
    "class": "self",
}


def deep(levels: int):
    value = "bottom"
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


TRICKY = {
    "unicode": UNICODE,
    "integers": INTEGERS,
    "names": NAMES,
    "floats": [1.5, -0.25, 1e-7, 1e21, 5e-324, 1.7976931348623157e308, 0.1],
    "empty": [{}, [], [[]], [{}], None, True, False],
    "deep": deep(100),
    "mixed": {"exact": [12345678901234567890, "12345678901234567890", {"12345678901234567890": 12345678901234567891}]},
}
