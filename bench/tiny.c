/* The least a dynamically linked program can do: what is left is starting it. */
int main(void)
{
	return 0;
}
