"""Change events of Debezium: a database's rows as they became, and what happened to them."""
