// What a call that can fail returns, and the sentence that tells a user what to do about it.
//
// A function that can fail returns a `status`; 0 is success. When it fails it has put one sentence into `error`: what was
// wrong, with the names and numbers, and what to change. `error` is owned by the caller; NULL is allowed and drops the text.
// A caller either forwards a failure (TRY) or goes to its one cleanup label; it never overwrites the text below it.
#ifndef TALLY_BASE_STATUS_H
#define TALLY_BASE_STATUS_H

#define STATUS_LIST(X) \
    X(OK, "done") \
    X(BAD_ARGUMENT, "an argument or option is wrong") \
    X(BAD_FILE, "a file is damaged or inconsistent") \
    X(UNSUPPORTED, "a valid file or request needs something tally does not do") \
    X(NOT_FOUND, "a file, tensor or model is missing") \
    X(IO, "reading or writing failed") \
    X(NO_MEMORY, "memory ran out") \
    X(FULL, "the context or the cache is full") \
    X(NON_FINITE, "NaN or infinity where a number is needed") \
    X(CANCELLED, "stopped on request") \
    X(INTERNAL, "a mistake of tally's own")

typedef enum status {
#define STATUS_ENUM(name, text) STATUS_##name,
    STATUS_LIST(STATUS_ENUM)
#undef STATUS_ENUM
        STATUS_COUNT
} status;

enum { ERROR_TEXT_MAX = 1024 }; // bytes, the terminator included; longer sentences are cut at a whole character

typedef struct error {
    status code;
    char text[ERROR_TEXT_MAX];
} error;

// Writes the sentence into *err (if any) and returns `code`, so that `return error_set(err, ...)` is the whole failure path.
// Control characters of what it names become spaces: a message is one line.
status error_set(error *err, status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// Puts "prefix: " before the sentence already in *err; for callers that know the file or request it belongs to.
status error_prefix(error *err, status code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// The sentence for an allocation of n bytes that failed.
status error_no_memory(error *err, unsigned long long n);

#define TRY(expr) \
    do { \
        status try_status = (expr); \
        if (try_status != STATUS_OK) return try_status; \
    } while (0)

#endif
