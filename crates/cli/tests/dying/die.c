/* Loaded into the program under test (LD_PRELOAD): kills it with SIGKILL at an exact place of its journal.
 *
 * CONVOKE_DIE=before:N  before anything of the Nth commit is written: the journal has N - 1 commits
 * CONVOKE_DIE=after:N   once the Nth commit is on disk, before the program can act upon it
 *
 * Only writes to a file called store.db-wal count. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long syncs;

static int is_journal(int fd) {
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    const char *name = strrchr(path, '/');
    return name && strcmp(name, "/store.db-wal") == 0;
}

static long wanted(const char *when) {
    const char *die = getenv("CONVOKE_DIE");
    size_t length = strlen(when);
    if (!die || strncmp(die, when, length) || die[length] != ':') return 0;
    return atol(die + length + 1);
}

static void die(void) {
    kill(getpid(), SIGKILL);
    for (;;) pause();
}

static void about_to_write(int fd) {
    if (is_journal(fd) && wanted("before") == __atomic_load_n(&syncs, __ATOMIC_SEQ_CST) + 1) die();
}

static void has_synced(int fd) {
    if (!is_journal(fd)) return;
    if (__atomic_add_fetch(&syncs, 1, __ATOMIC_SEQ_CST) == wanted("after")) die();
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int fd, const void *bytes, size_t size) {
    about_to_write(fd);
    return REAL(write)(fd, bytes, size);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t at) {
    about_to_write(fd);
    return REAL(pwrite)(fd, bytes, size, at);
}

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t at) {
    about_to_write(fd);
    return REAL(pwrite64)(fd, bytes, size, at);
}

int fsync(int fd) {
    int done = REAL(fsync)(fd);
    has_synced(fd);
    return done;
}

int fdatasync(int fd) {
    int done = REAL(fdatasync)(fd);
    has_synced(fd);
    return done;
}
