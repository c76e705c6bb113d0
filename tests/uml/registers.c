/*
 * For linux.uml, by LD_PRELOAD: processors with more registers than it knows, such as those of AMX.
 *
 * It sets the registers of a process from a buffer that ends with AVX-512. The kernel of the machine
 * takes all that the processor has or none (EFAULT). What is missing is not in use, and is zero.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

static long (*next)(int request, ...);
static char registers[1 << 16]; /* the callers' stacks are small, and there is one thread */
static size_t size;             /* of what this processor has; 0 until it is known */

__attribute__((constructor)) static void find_next(void)
{
	next = (long (*)(int, ...))dlsym(RTLD_NEXT, "ptrace");
}

static long set_all(int process, struct iovec *some)
{
	struct iovec all = {registers, sizeof(registers)};

	if (!size) {
		if (next(PTRACE_GETREGSET, process, NT_X86_XSTATE, &all) < 0)
			return -1;
		size = all.iov_len;
	}
	if (some->iov_len >= size)
		return next(PTRACE_SETREGSET, process, NT_X86_XSTATE, some);
	memset(registers, 0, size);
	memcpy(registers, some->iov_base, some->iov_len);
	all.iov_len = size;
	return next(PTRACE_SETREGSET, process, NT_X86_XSTATE, &all);
}

long ptrace(enum __ptrace_request request, ...)
{
	va_list given;
	va_start(given, request);
	int process = va_arg(given, int);
	void *address = va_arg(given, void *), *data = va_arg(given, void *);
	va_end(given);
	if (request == PTRACE_SETREGSET && address == (void *)NT_X86_XSTATE)
		return set_all(process, data);
	return next(request, process, address, data);
}
