// What each system call changes: which of its arguments names the object, and which says how much is written.
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_fchmodat2
#define SYS_fchmodat2 452
#endif

enum trait {
  FREES = 1,      // gives space back
  FOLLOWS = 2,    // goes through a link in the last place, unless its flags forbid it
  OPENS = 4,      // changes something only with O_CREAT, O_TRUNC or O_TMPFILE
  BEHIND = 8,     // its flags are the first word behind a pointer (openat2)
  CLONES = 16,    // changes something only as FICLONE or FICLONERANGE (ioctl)
};
// Positions count from 1; 0: the call has no such argument.
struct rule {
  long number;
  const char *name;
  unsigned char fd, dir, path, to_dir, to_path;  // the object; where there is no dir, path starts at the working directory
  unsigned char bytes, vector;                   // how much is written: a length, or an iovec and its count behind it
  unsigned char flags, traits;
};

#define FD(number, name, ...) {number, name, .fd = 1, ##__VA_ARGS__}
#define AT(number, name, ...) {number, name, .dir = 1, .path = 2, ##__VA_ARGS__}
#define PATH(number, name, ...) {number, name, .path = 1, ##__VA_ARGS__}
static const struct rule rules[] = {
    FD(SYS_write, "write", .bytes = 3),
    FD(SYS_pwrite64, "pwrite", .bytes = 3),
    FD(SYS_writev, "writev", .vector = 2),
    FD(SYS_pwritev, "pwritev", .vector = 2),
    FD(SYS_pwritev2, "pwritev2", .vector = 2),
    FD(SYS_sendfile, "sendfile", .bytes = 4),
    {SYS_copy_file_range, "copy_file_range", .fd = 3, .bytes = 5},
    {SYS_splice, "splice", .fd = 3, .bytes = 5},
    FD(SYS_ioctl, "ioctl", .traits = CLONES),
    AT(SYS_openat, "openat", .flags = 3, .traits = OPENS | FOLLOWS),
    AT(SYS_openat2, "openat2", .flags = 3, .traits = OPENS | FOLLOWS | BEHIND),
    FD(SYS_fsync, "fsync"),
    FD(SYS_fdatasync, "fdatasync"),
    FD(SYS_syncfs, "syncfs"),
    FD(SYS_ftruncate, "ftruncate"),
    PATH(SYS_truncate, "truncate", .traits = FOLLOWS),
    FD(SYS_fallocate, "fallocate"),
    AT(SYS_renameat2, "renameat2", .to_dir = 3, .to_path = 4),
    AT(SYS_unlinkat, "unlinkat", .traits = FREES),
    AT(SYS_mkdirat, "mkdirat"),
    AT(SYS_mknodat, "mknodat"),
    {SYS_symlinkat, "symlinkat", .dir = 2, .path = 3},
    {SYS_linkat, "linkat", .dir = 3, .path = 4},
    FD(SYS_fchmod, "fchmod"),
    AT(SYS_fchmodat, "fchmodat", .traits = FOLLOWS),
    AT(SYS_fchmodat2, "fchmodat2", .flags = 4, .traits = FOLLOWS),
    FD(SYS_fchown, "fchown"),
    AT(SYS_fchownat, "fchownat", .flags = 5, .traits = FOLLOWS),
    AT(SYS_utimensat, "utimensat", .flags = 4, .traits = FOLLOWS),
    PATH(SYS_setxattr, "setxattr", .traits = FOLLOWS),
    PATH(SYS_lsetxattr, "lsetxattr"),
    FD(SYS_fsetxattr, "fsetxattr"),
    PATH(SYS_removexattr, "removexattr", .traits = FOLLOWS),
    PATH(SYS_lremovexattr, "lremovexattr"),
    FD(SYS_fremovexattr, "fremovexattr"),
#ifdef SYS_renameat
    AT(SYS_renameat, "renameat", .to_dir = 3, .to_path = 4),
#endif
#ifdef SYS_open  // the old numbers go together; newer machines never had them
    PATH(SYS_open, "open", .flags = 2, .traits = OPENS | FOLLOWS),
    PATH(SYS_creat, "creat", .traits = FOLLOWS),
    {SYS_rename, "rename", .path = 1, .to_path = 2},
    PATH(SYS_unlink, "unlink", .traits = FREES),
    PATH(SYS_rmdir, "rmdir", .traits = FREES),
    PATH(SYS_mkdir, "mkdir"),
    PATH(SYS_mknod, "mknod"),
    {SYS_symlink, "symlink", .path = 2},
    {SYS_link, "link", .path = 2},
    PATH(SYS_chmod, "chmod", .traits = FOLLOWS),
    PATH(SYS_chown, "chown", .traits = FOLLOWS),
    PATH(SYS_lchown, "lchown"),
    PATH(SYS_utime, "utime", .traits = FOLLOWS),
    PATH(SYS_utimes, "utimes", .traits = FOLLOWS),
    AT(SYS_futimesat, "futimesat", .traits = FOLLOWS),
#endif
};

#undef FD
#undef AT
#undef PATH
