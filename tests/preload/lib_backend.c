/* The other library of lib_foreign.c. */
int cufoo(void);

int cufoo(void)
{
	return 42;
}
