"""The estimators and their rivals on published tabular data, by the published protocols.

    python -m benchmarks.tabular --data-dir DIR [--suite classification|regression|times] [--models NAME ...]
    python -m benchmarks.tabular.page

Sets come in (`sets`), a suite says which rows may be seen when (`protocol`), a model says what is fitted and how its
parameters are chosen (`models`); rows of results are kept in one file (`store`), from which tables and the page are
written (`tables`, `page`).
"""
