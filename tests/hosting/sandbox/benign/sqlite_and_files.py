"""Uses a database, and temporary files."""

import sqlite3
import tempfile

database = sqlite3.connect("rows.db")
database.execute("create table rows (value)")
database.execute("insert into rows values (1)")
database.commit()
with tempfile.NamedTemporaryFile() as file:
    file.write(b"x")
print("ok")
