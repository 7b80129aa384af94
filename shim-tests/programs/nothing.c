/* A program that does nothing: what loading costs. */
int main(void) { return 0; }
