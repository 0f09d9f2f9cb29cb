// The way in to the serving half of a probe of two nodes. Whoever connects greets with the token
// that only its partner knows, and says what it wants; anybody else is refused, and the next one
// let in. And the words of the lines that the halves then say to each other, which are not trusted.
//
//   muster-probe 1 TOKEN WISH…       ->
//                                    <-  refused      (nothing, where it is let in)
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "health/active/probe_socket.h"
#include "scheduler/model/result.h"

namespace muster {

// 8 to 128 characters without white space.
bool is_probe_token(std::string_view token);

class ProbeDoor {
 public:
  ProbeDoor(std::string token, ProbeSocket listener)
      : token_(std::move(token)), listener_(std::move(listener)) {}

  struct Guest {
    ProbeSocket socket;
    std::vector<std::string> words;  // what it wants
  };
  Result<Guest> next(ProbeMoment until);

 private:
  std::optional<std::vector<std::string>> wish_of(const std::string& line) const;

  std::string token_;
  ProbeSocket listener_;
  int refused_ = 0;
};

// Tries to connect until then, and greets.
struct ProbeCall {
  std::string host;
  std::uint16_t port = 0;
  std::string token;
};
Result<ProbeSocket> greet_probe(const ProbeCall& call, const std::string& wish, ProbeMoment until);

// The first eight of a line.
std::vector<std::string> words_of_probe(const std::string& line);
// That the other half said `line`, and what it means where it is a refusal.
Error unexpected_of_probe(const std::string& line);

template <class Number>
std::optional<Number> probe_number(const std::string& word, Number least, Number most) {
  Number value{};
  const auto [at, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc() && at == word.data() + word.size();
  return is_number && value >= least && value <= most ? std::optional(value) : std::nullopt;
}

}  // namespace muster
