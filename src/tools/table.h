/* Rows of cells, printed in columns as wide as their widest cell. */
#pragma once

#include <stddef.h>
#include <stdio.h>

enum { TABLE_COLUMNS = 9, TABLE_CELL_BYTES = 256 };

struct table_row {
	char cells[TABLE_COLUMNS][TABLE_CELL_BYTES];
};

struct table {
	size_t count;
	struct table_row *rows;
};

/* Appends an empty row; NULL when there is no memory. Valid until the next one. */
struct table_row *table_add(struct table *table);

/* Writes all rows, two blanks between the columns. */
void table_print(const struct table *table, FILE *out);

/* Frees the rows. */
void table_free(struct table *table);
