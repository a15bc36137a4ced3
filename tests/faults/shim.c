// Numbers the calls that change something below FS_ROOT and makes one of them go wrong. Linux, glibc, 64 bit.
//
// There is one door. A hooked libc function only says which system call it stands for; syscall(2) says it already; both
// knock, and the table `rules` tells from the number which argument names the object. So no call can be known under
// its name and unknown under its number. Names looked up with dlsym (ctypes, cffi) are answered with the hooks.
//
//   FS_ROOT      folders, absolute and without links, joined by colons
//   FAULT_MODE   kill       SIGKILL to the calling process instead of the call
//                killafter  SIGKILL once the call has been carried out
//                torn       half of a write is carried out, then SIGKILL (calls that write no bytes: as kill)
//                enospc     the call fails with ENOSPC, once
//                eio        the call fails with EIO, once
//                sticky     ENOSPC for this call and every later one: the disk stays full
//   FAULT_AT     the number of the call, from 1; 0: only count
//   FAULT_COUNT  file of three native 64-bit words that all processes of a run share and that survives SIGKILL:
//                calls counted, faults made, armed. While the third is 0 nothing is counted
//   FAULT_TRACE  text file, a line "N pid call path" for each counted call
//   FAULT_ONLY   count only in programs whose command line holds this text
//
// Calls that free space (unlink, rmdir) neither count nor fail under enospc and sticky, as on a full disk.
// Not seen: stores through mmap, io_uring and aio, what libc does inside itself (stdio's flush, mkstemp), static programs,
// programs that make system calls without libc (Go), programs started with a scrubbed environment. chmod of a link itself
// needs Linux 6.6.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>
#include <utime.h>

#include "rules.h"

_Static_assert(sizeof(long) == 8, "offsets travel in one register");

enum mode { KILL, KILLAFTER, TORN, ENOSPC_ONCE, EIO_ONCE, STICKY, MODES };
static const char *const mode_names[MODES] = {"kill", "killafter", "torn", "enospc", "eio", "sticky"};
struct page {
  uint64_t calls, faults, armed;
};

static struct page private_page = {.armed = 1};
static struct page *page = &private_page;
static const char *roots = "", *trace_path;
static enum mode mode = MODES;
static uint64_t fault_at;
static bool bystander;
static long (*kernel)(long, ...);

typedef void *lookup(void *, const char *);
static lookup *real_dlsym(void) {
  static lookup *found;
  const char *versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  for (int i = 0; !found && i < 3; i++) found = (lookup *)dlvsym(RTLD_NEXT, "dlsym", versions[i]);
  return found;
}

static const char *setting(const char *name) {
  const char *value = getenv(name);
  return value ? strdup(value) : "";  // a program may change its environment under us
}

static void map_page(const char *file) {
  struct stat info;
  int fd = kernel(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0);
  if (fd < 0) return;
  if (!fstat(fd, &info) && info.st_size >= (off_t)sizeof *page) {
    void *mapped = mmap(0, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) page = mapped;
  }
  kernel(SYS_close, fd);
}

static bool command_line_holds(const char *text) {
  char line[8192];
  int fd = kernel(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0);
  long n = fd < 0 ? 0 : kernel(SYS_read, fd, line, sizeof line - 1);
  if (fd >= 0) kernel(SYS_close, fd);
  if (n < 0) n = 0;
  for (long i = 0; i < n; i++)
    if (!line[i]) line[i] = ' ';
  line[n] = 0;
  return strstr(line, text);
}

static void read_settings(void) {
  roots = setting("FS_ROOT");
  trace_path = setting("FAULT_TRACE");
  fault_at = strtoull(setting("FAULT_AT"), 0, 10);
  const char *wanted = setting("FAULT_MODE"), *only = setting("FAULT_ONLY");
  for (int i = 0; i < MODES; i++)
    if (!strcmp(wanted, mode_names[i])) mode = i;
  bystander = *only && !command_line_holds(only);
  map_page(setting("FAULT_COUNT"));
}

// Also called by the hooks: a library's own start-up code may reach them before ours has run.
__attribute__((constructor)) static void start(void) {
  if (kernel) return;
  kernel = (long (*)(long, ...))real_dlsym()(RTLD_NEXT, "syscall");
  read_settings();
}

// For a process that was forked without a run of its own and has got the environment of one (nursery.py).
void fault_shim_again(void) { read_settings(); }

// A place is an absolute path as the kernel sees it. Empty: there is none. "?": it is deeper than PATH_MAX, and what
// cannot be told apart is counted rather than missed.
static bool below_a_root(const char *place) {
  for (const char *root = roots; *root;) {
    size_t n = strcspn(root, ":");
    if (n && !strncmp(place, root, n) && (!place[n] || place[n] == '/')) return true;
    root += n + (root[n] == ':');
  }
  return *place == '?';
}

static void place_of_fd(int fd, char *place) {
  char link[32];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t n = readlink(link, place, PATH_MAX - 1);
  if (n < 0 && errno == ENAMETOOLONG) n = 1, *place = '?';
  place[n > 0 ? n : 0] = 0;
}

// O_PATH: the kernel resolves links, "..", descriptors and the working directory for us, and unlike those of any other
// descriptor its close does not drop the process's record locks on the file (SQLite lives on them).
static bool place_of(int dir, const char *path, char *place) {
  int fd = kernel(SYS_openat, dir, path, O_PATH | O_CLOEXEC, 0);
  if (fd < 0) return false;
  place_of_fd(fd, place);
  kernel(SYS_close, fd);
  return *place;
}

// The entry that a path names: its folder is resolved, its last part only where the call follows it to something.
static void place_of_entry(int dir, const char *path, bool follow, char *place) {
  char folder[PATH_MAX];
  *place = 0;
  if (!path || !*path) return place_of_fd(dir, place);
  if (follow && place_of(dir, path, place)) return;
  size_t end = strlen(path), begin;
  while (end > 1 && path[end - 1] == '/') end--;
  for (begin = end; begin && path[begin - 1] != '/';) begin--;
  int n = end - begin;
  bool has_name = n > 2 || (n && strncmp(path + begin, "..", n));
  snprintf(folder, sizeof folder, "%.*s", begin ? (int)begin : 1, begin ? path : ".");
  if (!place_of(dir, has_name ? folder : path, place) || !has_name) return;
  size_t used = strlen(place);
  snprintf(place + used, 2 * PATH_MAX - used, "%s%.*s", place[used - 1] == '/' ? "" : "/", n, path + begin);
}

#define ARG(position) args[(position) - 1]
static bool changes(const struct rule *rule, const long *args, char *place) {
  unsigned long flags = rule->flags ? ARG(rule->flags) : 0;
  if (rule->traits & BEHIND) flags = flags ? *(uint64_t *)flags : 0;
  if (rule->traits & CLONES && args[1] != FICLONE && args[1] != FICLONERANGE) return false;
  bool opens = rule->traits & OPENS;
  if (opens && !(flags & (O_CREAT | O_TRUNC)) && (flags & O_TMPFILE) != O_TMPFILE) return false;
  if (rule->fd) return place_of_fd(ARG(rule->fd), place), below_a_root(place);
  bool refuses_links = opens ? flags & O_NOFOLLOW || (flags & O_CREAT && flags & O_EXCL) : flags & AT_SYMLINK_NOFOLLOW;
  bool follow = rule->traits & FOLLOWS && !refuses_links;
  if (rule->to_path) place_of_entry(rule->to_dir ? ARG(rule->to_dir) : AT_FDCWD, (char *)ARG(rule->to_path), false, place);
  if (rule->to_path && below_a_root(place)) return true;
  place_of_entry(rule->dir ? ARG(rule->dir) : AT_FDCWD, (char *)ARG(rule->path), follow, place);
  return below_a_root(place);
}

// Opened for each line: a descriptor kept open would be closed by a program that turns itself into a daemon, and its
// number would then belong to one of the program's own files.
static void trace(uint64_t number, const char *name, const char *place) {
  char line[8 * PATH_MAX + 128];
  int n = snprintf(line, 128, "%llu %d %s ", (unsigned long long)number, getpid(), name);
  for (; *place; place++) {
    bool plain = (unsigned char)*place >= ' ' && *place != '\\' && *place != 0x7f;
    n += plain ? (line[n] = *place, 1) : snprintf(line + n, 5, "\\x%02x", (unsigned char)*place);
  }
  line[n++] = '\n';
  int fd = kernel(SYS_openat, AT_FDCWD, trace_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd < 0) return;
  kernel(SYS_write, fd, line, n);
  kernel(SYS_close, fd);
}

static bool goes_wrong(const char *name, const char *place) {
  uint64_t number = __atomic_add_fetch(&page->calls, 1, __ATOMIC_SEQ_CST);
  if (*trace_path) trace(number, name, place);
  if (!fault_at || mode == MODES || number < fault_at || (number > fault_at && mode != STICKY)) return false;
  __atomic_add_fetch(&page->faults, 1, __ATOMIC_SEQ_CST);
  return true;
}

static _Noreturn void die(void) {
  for (;;) kernel(SYS_kill, getpid(), SIGKILL);
}

static long make(long number, const long *args) {
  return kernel(number, args[0], args[1], args[2], args[3], args[4], args[5]);
}

static void make_half(const struct rule *rule, long *args) {
  if (rule->bytes) {
    ARG(rule->bytes) /= 2;
    make(rule->number, args);
  }
  if (!rule->vector || ARG(rule->vector + 1) < 0 || ARG(rule->vector + 1) > IOV_MAX) return;
  struct iovec part[IOV_MAX];
  size_t left = 0, count = ARG(rule->vector + 1), used = 0;
  memcpy(part, (void *)ARG(rule->vector), count * sizeof *part);
  for (size_t i = 0; i < count; i++) left += part[i].iov_len;
  for (left /= 2; used < count && left; used++) {
    if (part[used].iov_len > left) part[used].iov_len = left;
    left -= part[used].iov_len;
  }
  ARG(rule->vector) = (long)part;
  ARG(rule->vector + 1) = used;
  make(rule->number, args);
}

static long spoil(const struct rule *rule, long *args) {
  if (mode == KILLAFTER) make(rule->number, args);
  if (mode == TORN) make_half(rule, args);
  if (mode == KILL || mode == KILLAFTER || mode == TORN) die();
  errno = mode == EIO_ONCE ? EIO : ENOSPC;
  return -1;
}

// The door. `name` is what the caller called; null: it called by number.
static long knock(const char *name, long number, long *args) {
  start();
  const struct rule *rule = 0;
  bool watching = __atomic_load_n(&page->armed, __ATOMIC_ACQUIRE) && !bystander;
  for (size_t i = 0; watching && !rule && i < sizeof rules / sizeof *rules; i++)
    if (rules[i].number == number) rule = &rules[i];
  if (!rule || (rule->traits & FREES && (mode == ENOSPC_ONCE || mode == STICKY))) return make(number, args);
  char place[2 * PATH_MAX] = "";
  int before = errno;
  bool wrong = changes(rule, args, place) && goes_wrong(name ? name : rule->name, place);
  errno = before;
  return wrong ? spoil(rule, args) : make(number, args);
}

#define P(pointer) (long)(pointer)
#define CWD AT_FDCWD
#define HOOK(type, name, parameters, number, ...) \
  type name parameters { return knock(#name, number, (long[6]){__VA_ARGS__}); }
#define ALIAS(other, name) extern __typeof(name) other __attribute__((alias(#name)))

HOOK(ssize_t, write, (int fd, const void *b, size_t n), SYS_write, fd, P(b), n)
HOOK(ssize_t, pwrite, (int fd, const void *b, size_t n, off_t at), SYS_pwrite64, fd, P(b), n, at)
HOOK(ssize_t, writev, (int fd, const struct iovec *v, int n), SYS_writev, fd, P(v), n)
HOOK(ssize_t, pwritev, (int fd, const struct iovec *v, int n, off_t at), SYS_pwritev, fd, P(v), n, at)
HOOK(ssize_t, pwritev2, (int fd, const struct iovec *v, int n, off_t at, int flags), SYS_pwritev2, fd, P(v), n, at, 0, flags)
HOOK(ssize_t, sendfile, (int to, int from, off_t *at, size_t n), SYS_sendfile, to, from, P(at), n)
HOOK(ssize_t, copy_file_range, (int from, off_t *at, int to, off_t *to_at, size_t n, unsigned flags),
     SYS_copy_file_range, from, P(at), to, P(to_at), n, flags)
HOOK(ssize_t, splice, (int from, off_t *at, int to, off_t *to_at, size_t n, unsigned flags),
     SYS_splice, from, P(at), to, P(to_at), n, flags)
HOOK(int, fsync, (int fd), SYS_fsync, fd)
HOOK(int, fdatasync, (int fd), SYS_fdatasync, fd)
HOOK(int, syncfs, (int fd), SYS_syncfs, fd)
HOOK(int, ftruncate, (int fd, off_t size), SYS_ftruncate, fd, size)
HOOK(int, truncate, (const char *p, off_t size), SYS_truncate, P(p), size)
HOOK(int, fallocate, (int fd, int how, off_t at, off_t n), SYS_fallocate, fd, how, at, n)
HOOK(int, creat, (const char *p, mode_t m), SYS_openat, CWD, P(p), O_CREAT | O_WRONLY | O_TRUNC, m)
HOOK(int, openat2, (int dir, const char *p, const void *how, size_t n), SYS_openat2, dir, P(p), P(how), n)
HOOK(int, rename, (const char *p, const char *to), SYS_renameat2, CWD, P(p), CWD, P(to))
HOOK(int, renameat, (int dir, const char *p, int to_dir, const char *to), SYS_renameat2, dir, P(p), to_dir, P(to))
HOOK(int, renameat2, (int dir, const char *p, int to_dir, const char *to, unsigned flags),
     SYS_renameat2, dir, P(p), to_dir, P(to), flags)
HOOK(int, unlink, (const char *p), SYS_unlinkat, CWD, P(p))
HOOK(int, unlinkat, (int dir, const char *p, int flags), SYS_unlinkat, dir, P(p), flags)
HOOK(int, rmdir, (const char *p), SYS_unlinkat, CWD, P(p), AT_REMOVEDIR)
HOOK(int, mkdir, (const char *p, mode_t m), SYS_mkdirat, CWD, P(p), m)
HOOK(int, mkdirat, (int dir, const char *p, mode_t m), SYS_mkdirat, dir, P(p), m)
HOOK(int, mknod, (const char *p, mode_t m, dev_t d), SYS_mknodat, CWD, P(p), m, d)
HOOK(int, mknodat, (int dir, const char *p, mode_t m, dev_t d), SYS_mknodat, dir, P(p), m, d)
HOOK(int, __xmknod, (int v, const char *p, mode_t m, dev_t *d), SYS_mknodat, CWD, P(p), m, *d)
HOOK(int, __xmknodat, (int v, int dir, const char *p, mode_t m, dev_t *d), SYS_mknodat, dir, P(p), m, *d)
HOOK(int, mkfifo, (const char *p, mode_t m), SYS_mknodat, CWD, P(p), m | S_IFIFO)
HOOK(int, mkfifoat, (int dir, const char *p, mode_t m), SYS_mknodat, dir, P(p), m | S_IFIFO)
HOOK(int, symlink, (const char *target, const char *p), SYS_symlinkat, P(target), CWD, P(p))
HOOK(int, symlinkat, (const char *target, int dir, const char *p), SYS_symlinkat, P(target), dir, P(p))
HOOK(int, link, (const char *old, const char *p), SYS_linkat, CWD, P(old), CWD, P(p))
HOOK(int, linkat, (int old_dir, const char *old, int dir, const char *p, int flags),
     SYS_linkat, old_dir, P(old), dir, P(p), flags)
HOOK(int, chmod, (const char *p, mode_t m), SYS_fchmodat, CWD, P(p), m)
HOOK(int, lchmod, (const char *p, mode_t m), SYS_fchmodat2, CWD, P(p), m, AT_SYMLINK_NOFOLLOW)
HOOK(int, fchmod, (int fd, mode_t m), SYS_fchmod, fd, m)
HOOK(int, fchmodat, (int dir, const char *p, mode_t m, int flags),
     flags ? SYS_fchmodat2 : SYS_fchmodat, dir, P(p), m, flags)
HOOK(int, chown, (const char *p, uid_t u, gid_t g), SYS_fchownat, CWD, P(p), u, g)
HOOK(int, lchown, (const char *p, uid_t u, gid_t g), SYS_fchownat, CWD, P(p), u, g, AT_SYMLINK_NOFOLLOW)
HOOK(int, fchown, (int fd, uid_t u, gid_t g), SYS_fchown, fd, u, g)
HOOK(int, fchownat, (int dir, const char *p, uid_t u, gid_t g, int flags), SYS_fchownat, dir, P(p), u, g, flags)
HOOK(int, utimensat, (int dir, const char *p, const struct timespec t[2], int flags), SYS_utimensat, dir, P(p), P(t), flags)
HOOK(int, futimens, (int fd, const struct timespec t[2]), SYS_utimensat, fd, 0, P(t))
HOOK(int, setxattr, (const char *p, const char *k, const void *v, size_t n, int flags), SYS_setxattr, P(p), P(k), P(v), n, flags)
HOOK(int, lsetxattr, (const char *p, const char *k, const void *v, size_t n, int flags), SYS_lsetxattr, P(p), P(k), P(v), n, flags)
HOOK(int, fsetxattr, (int fd, const char *k, const void *v, size_t n, int flags), SYS_fsetxattr, fd, P(k), P(v), n, flags)
HOOK(int, removexattr, (const char *p, const char *k), SYS_removexattr, P(p), P(k))
HOOK(int, lremovexattr, (const char *p, const char *k), SYS_lremovexattr, P(p), P(k))
HOOK(int, fremovexattr, (int fd, const char *k), SYS_fremovexattr, fd, P(k))
ALIAS(pwrite64, pwrite);
ALIAS(pwritev64, pwritev);
ALIAS(pwritev64v2, pwritev2);
ALIAS(sendfile64, sendfile);
ALIAS(ftruncate64, ftruncate);
ALIAS(truncate64, truncate);
ALIAS(fallocate64, fallocate);
ALIAS(creat64, creat);

// The times of the older functions, as utimensat takes them; a null pointer means now.
static int set_times(const char *name, int dir, const char *path, const struct timeval *t, int flags) {
  struct timespec ns[2];
  for (int i = 0; t && i < 2; i++) ns[i] = (struct timespec){t[i].tv_sec, t[i].tv_usec * 1000};
  return knock(name, SYS_utimensat, (long[6]){dir, P(path), t ? P(ns) : 0, flags});
}
int utimes(const char *p, const struct timeval t[2]) { return set_times("utimes", CWD, p, t, 0); }
int lutimes(const char *p, const struct timeval t[2]) { return set_times("lutimes", CWD, p, t, AT_SYMLINK_NOFOLLOW); }
int futimes(int fd, const struct timeval t[2]) { return set_times("futimes", fd, 0, t, 0); }
int futimesat(int dir, const char *p, const struct timeval t[2]) { return set_times("futimesat", dir, p, t, 0); }
int utime(const char *p, const struct utimbuf *t) {
  struct timeval both[2] = {{t ? t->actime : 0, 0}, {t ? t->modtime : 0, 0}};
  return set_times("utime", CWD, p, t ? both : 0, 0);
}

int remove(const char *path) {
  long args[6] = {CWD, P(path)};
  int result = knock("remove", SYS_unlinkat, args);
  args[2] = AT_REMOVEDIR;
  return result && (errno == EISDIR || errno == EPERM) ? knock("remove", SYS_unlinkat, args) : result;
}

int posix_fallocate(int fd, off_t at, off_t n) {  // hands its error back and leaves errno alone
  int before = errno, result = knock("posix_fallocate", SYS_fallocate, (long[6]){fd, 0, at, n}) ? errno : 0;
  errno = before;
  return result;
}
ALIAS(posix_fallocate64, posix_fallocate);

#define OPTIONAL_MODE(flags, m) \
  va_list rest; \
  va_start(rest, flags); \
  mode_t m = flags & (O_CREAT | __O_TMPFILE) ? va_arg(rest, mode_t) : 0; \
  va_end(rest)
int open(const char *p, int flags, ...) {
  OPTIONAL_MODE(flags, m);
  return knock("open", SYS_openat, (long[6]){CWD, P(p), flags, m});
}
int openat(int dir, const char *p, int flags, ...) {
  OPTIONAL_MODE(flags, m);
  return knock("openat", SYS_openat, (long[6]){dir, P(p), flags, m});
}
ALIAS(open64, open);
ALIAS(openat64, openat);
HOOK(int, __open_2, (const char *p, int flags), SYS_openat, CWD, P(p), flags)
HOOK(int, __openat_2, (int dir, const char *p, int flags), SYS_openat, dir, P(p), flags)
ALIAS(__open64_2, __open_2);
ALIAS(__openat64_2, __openat_2);

int ioctl(int fd, unsigned long request, ...) {
  va_list rest;
  va_start(rest, request);
  long argument = va_arg(rest, long);
  va_end(rest);
  return knock("ioctl", SYS_ioctl, (long[6]){fd, request, argument});
}

long syscall(long number, ...) {
  long args[6];
  va_list rest;
  va_start(rest, number);
  for (int i = 0; i < 6; i++) args[i] = va_arg(rest, long);
  va_end(rest);
  return knock(0, number, args);
}

// A name looked up in libc itself (ctypes.CDLL("libc.so.6"), cffi) is answered with the hook of that name.
void *dlsym(void *handle, const char *name) {
  Dl_info libc, shim, found, hook;
  void *real = real_dlsym()(handle, name), *global;
  start();
  if (!real || handle == RTLD_NEXT || !dladdr(real, &found)) return real;
  if (!dladdr(kernel, &libc) || found.dli_fbase != libc.dli_fbase) return real;
  global = real_dlsym()(RTLD_DEFAULT, name);
  if (!global || !dladdr(global, &hook) || !dladdr(start, &shim)) return real;
  return hook.dli_fbase == shim.dli_fbase ? global : real;
}
