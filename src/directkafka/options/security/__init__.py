"""Settings of TLS and of logins, as Kafka names them."""
