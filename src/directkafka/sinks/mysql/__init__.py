"""MySQL and MariaDB: store, ledger and sink on InnoDB."""
