"""From type hints to JSON Schemas and back.

- `hints`: the JSON Schema of a type hint.
- `field`: constraints and words inside of `Annotated`.
- `docs`: what docstrings say about a function and its parameters.
- `convert`: JSON values into what the hints promise.
- `validate`: whether a JSON value fits a schema, for the test harness and for unions.
- `signature`: the data of a handler, from its parameters.
"""
