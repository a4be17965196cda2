// Whether this build carries a sanitizer that makes everything several times slower: the longest tests then take a part of their cases.
// What they compare holds in every build; what the sanitizer looks for needs each path, not each number.
#ifndef TALLY_TESTS_SANITIZED_H
#define TALLY_TESTS_SANITIZED_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TALLY_SANITIZED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define TALLY_SANITIZED 1
#endif

#if defined(TALLY_SANITIZED)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

// Of these, the one that watches threads only, which is slowest and to which one kernel is as good as another.
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TALLY_THREADS_WATCHED 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define TALLY_THREADS_WATCHED 1
#endif

#if defined(TALLY_THREADS_WATCHED)
enum { THREADS_WATCHED = 1 };
#else
enum { THREADS_WATCHED = 0 };
#endif

#endif
