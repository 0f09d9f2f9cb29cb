#include "cli/job/job_name.h"

#include <string_view>

namespace muster {

namespace {

constexpr std::array<std::string_view, 32> adjectives{
    "amber", "brave", "brisk",  "calm",  "clear",  "cosmic", "crisp", "eager",
    "early", "fair",  "gentle", "green", "happy",  "honest", "jolly", "keen",
    "kind",  "light", "lively", "loyal", "mellow", "neat",   "noble", "patient",
    "plain", "quick", "quiet",  "solid", "steady", "sunny",  "swift", "warm"};
constexpr std::array<std::string_view, 32> nouns{
    "acorn", "anchor",  "atlas", "badger", "beacon", "birch",  "bridge", "canyon",
    "cedar", "comet",   "coral", "falcon", "garden", "harbor", "heron",  "island",
    "kite",  "lantern", "maple", "meadow", "nectar", "orbit",  "otter",  "pebble",
    "pine",  "plough",  "raven", "river",  "sail",   "spark",  "summit", "walnut"};
// Without vowels, so that no word is spelled by accident, and without l and 1, o and 0.
constexpr std::string_view letters = "bcdfghjkmnpqrstvwxz23456789";

}  // namespace

std::string job_name_from(const NameBytes& random) {
  std::string name(adjectives[random[0] % adjectives.size()]);
  name += '_';
  name += nouns[random[1] % nouns.size()];
  name += '_';
  for (std::size_t i = 0; i < 10; ++i) name += letters[random[i + 2] % letters.size()];
  return name;
}

}  // namespace muster
