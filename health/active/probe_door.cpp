#include "health/active/probe_door.h"

#include <algorithm>
#include <sstream>

namespace muster {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::string_view greeting = "muster-probe 1 ";
constexpr const char* refusal = "refused";
// A connection that says nothing is somebody else's.
constexpr milliseconds greeting_limit{1'000};
// A greeting is short: what does not take it is none that answers either.
constexpr milliseconds saying_limit{5'000};
constexpr std::size_t words_max = 8;
constexpr std::size_t shown_max = 80;

// Takes as long for a wrong token as for the right one.
bool is_same(std::string_view one, std::string_view other) {
  unsigned difference = one.size() == other.size() ? 0 : 1;
  for (std::size_t i = 0; i < one.size() && i < other.size(); ++i) {
    difference |= static_cast<unsigned char>(one[i]) ^ static_cast<unsigned char>(other[i]);
  }
  return difference == 0;
}

}  // namespace

bool is_probe_token(std::string_view token) {
  const bool is_plain = std::ranges::all_of(token, [](char c) { return c > ' ' && c <= '~'; });
  return is_plain && token.size() >= 8 && token.size() <= 128;
}

Result<ProbeDoor::Guest> ProbeDoor::next(ProbeMoment until) {
  while (Clock::now() < until) {
    auto socket = accept_from(listener_, until);
    if (!socket) return socket.error();
    if (!socket->is_open()) break;
    const auto line = socket->receive_line(std::min(until, Clock::now() + greeting_limit));
    auto words = line ? wish_of(*line) : std::nullopt;
    if (words) return Guest{std::move(*socket), std::move(*words)};
    ++refused_;
    (void)socket->send_all(std::string(refusal) + "\n", Clock::now());  // it may be gone
  }
  return Error{"nobody with the token came in time (" + std::to_string(refused_) +
               " were refused)"};
}

std::optional<std::vector<std::string>> ProbeDoor::wish_of(const std::string& line) const {
  if (!line.starts_with(greeting)) return std::nullopt;
  auto words = words_of_probe(line.substr(greeting.size()));
  if (words.empty() || !is_same(words.front(), token_)) return std::nullopt;
  words.erase(words.begin());
  return words;
}

Result<ProbeSocket> greet_probe(const ProbeCall& call, const std::string& wish, ProbeMoment until) {
  auto socket = connect_to(call.host, call.port, until);
  if (!socket) return socket.error();
  const std::string line = std::string(greeting) + call.token + " " + wish + "\n";
  if (Status said = socket->send_all(line, Clock::now() + saying_limit); !said) return said.error();
  return socket;
}

std::vector<std::string> words_of_probe(const std::string& line) {
  std::istringstream stream(line);
  std::vector<std::string> words;
  for (std::string word; words.size() < words_max && stream >> word;) words.push_back(word);
  return words;
}

Error unexpected_of_probe(const std::string& line) {
  if (line == refusal) return Error{"the other side refused: it has another token"};
  return Error{"the other side said something else: " + line.substr(0, shown_max)};
}

}  // namespace muster
