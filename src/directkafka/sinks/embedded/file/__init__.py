"""The process that opens database files for a driver, and the connections that it makes."""
