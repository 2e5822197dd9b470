"""The database of a site: engines, transactions, tables, leases, migrations. Imports no queue."""
