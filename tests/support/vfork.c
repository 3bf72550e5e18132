/* A shell that is suspended in the worst moment: its child, made by vfork, stands still before it begins its program. */
#define _DEFAULT_SOURCE
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
	if (vfork() == 0) {
		kill(getpid(), SIGSTOP);
		execlp("sleep", "sleep", "100", (char *)NULL);
		_exit(1);
	}
	puts("went on");
	fflush(stdout);
	for (;;)
		pause();
}
