"""Servers as child processes: started, waited for, given a port and a user without rights, ended with this process."""
