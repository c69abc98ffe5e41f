"""The estimators and their rivals on tabular data: published sets by the published protocols, and tables that are made.

    python -m benchmarks.tabular --data-dir DIR [--suite NAME ...] [--models NAME ...]
    python -m benchmarks.tabular --suite tables
    python -m benchmarks.tabular.page

Sets come in (`sets`) or are made (`cases`), a suite says which rows may be seen when (`protocol`), a model says what is
fitted and how its parameters are chosen (`models`); rows of results are kept in one file (`store`), from which tables
and the page are written (`measured`, `compared`, `goals`, `tables`, `page`). A suite may end long fits (`limited`).
"""
