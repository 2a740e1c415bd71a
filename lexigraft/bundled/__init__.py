"""What the embedded default study needs: models and interface text in packages of PyPI and npm.

No other part of the library imports these modules. They are found by name: a text's `loader`
(`catalogue`, `html`), the `format` of a source in a package (`llama2c`), and the script of the rule
`fetch_package`.
"""
