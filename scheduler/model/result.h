// Result<T>: a value or the sentence that says why there is none. World failures travel as Result;
// a broken promise inside the program is a bug and stops in `check`.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <variant>

namespace muster {

// What was attempted, on which thing, what went wrong, what to do: one sentence for a person.
struct Error {
  std::string message;
};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : content_(std::move(value)) {}
  Result(Error error) : content_(std::move(error)) {}
  explicit operator bool() const { return content_.index() == 0; }
  T& operator*() { return std::get<0>(content_); }
  const T& operator*() const { return std::get<0>(content_); }
  T* operator->() { return &std::get<0>(content_); }
  const T* operator->() const { return &std::get<0>(content_); }
  const Error& error() const { return std::get<1>(content_); }

 private:
  std::variant<T, Error> content_;
};

struct Done {};
using Status = Result<Done>;

// Always on, in release builds too: a violated invariant is a bug, never the world's fault.
inline void check(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "muster: internal error: %s\n", what);
  std::abort();
}

}  // namespace muster
