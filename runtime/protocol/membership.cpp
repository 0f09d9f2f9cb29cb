#include "runtime/protocol/membership.h"

#include "runtime/protocol/checkpoint_layout.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace muster {
namespace {

using Json = nlohmann::json;

std::optional<std::uint64_t> number_in(const Json& object, const char* key, std::uint64_t most) {
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned()) return std::nullopt;
  const auto number = found->get<std::uint64_t>();
  if (number > most) return std::nullopt;
  return number;
}

std::string text_in(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<EpochMember> parse_member(const Json& object) {
  if (!object.is_object()) return std::nullopt;
  const auto rank = number_in(object, "rank", UINT64_MAX);
  const auto port = number_in(object, "port", UINT16_MAX);
  const std::string host = text_in(object, "host");
  if (!rank || !port || *port == 0 || host.empty()) return std::nullopt;
  return EpochMember{*rank, host, static_cast<std::uint16_t>(*port), text_in(object, "node")};
}

}  // namespace

std::optional<std::size_t> EpochMembers::place_of(std::uint64_t rank) const {
  const auto found = std::ranges::find(members, rank, &EpochMember::rank);
  if (found == members.end()) return std::nullopt;
  return static_cast<std::size_t>(found - members.begin());
}

std::string format_membership(const EpochMembers& members) {
  Json list = Json::array();
  for (const EpochMember& member : members.members) {
    list.push_back({{"rank", member.rank},
                    {"host", member.host},
                    {"port", member.port},
                    {"node", member.node}});
  }
  // Names come from the nodes: one that is not UTF-8 is no reason to throw.
  return Json{{"epoch", members.epoch}, {"members", list}}.dump(-1, ' ', false,
                                                                Json::error_handler_t::replace) +
         "\n";
}

std::optional<EpochMembers> parse_membership(std::string_view text) {
  if (nests_too_deeply(text)) return std::nullopt;
  const Json object = Json::parse(text, nullptr, false);
  if (!object.is_object()) return std::nullopt;
  const auto epoch = number_in(object, "epoch", UINT64_MAX);
  const auto list = object.find("members");
  if (!epoch || list == object.end() || !list->is_array()) return std::nullopt;
  EpochMembers members{*epoch, {}};
  std::set<std::uint64_t> seen;
  for (const Json& entry : *list) {
    const auto member = parse_member(entry);
    if (!member || !seen.insert(member->rank).second) return std::nullopt;
    members.members.push_back(*member);
  }
  return members;
}

std::optional<EpochMembers> read_membership(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return parse_membership(text.str());
}

}  // namespace muster
