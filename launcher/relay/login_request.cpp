#include "launcher/relay/login_request.h"

#include <string>

#include "launcher/transport/wire_reader.h"

namespace muster {
namespace {

constexpr char userauth_request = 50;
constexpr std::size_t shortest_session_id = 20, longest_session_id = 64;  // SHA-1 to SHA-512

}  // namespace

bool is_login_request(std::string_view data, std::string_view user, std::string_view public_key) {
  const std::string_view session_id = WireReader(data).string();
  if (session_id.size() < shortest_session_id || session_id.size() > longest_session_id) {
    return false;
  }
  const std::string_view algorithm = WireReader(public_key).string();
  const std::string wanted = std::string(1, userauth_request) + wire_string(user) +
                             wire_string("ssh-connection") + wire_string("publickey") + '\1' +
                             wire_string(algorithm) + wire_string(public_key);
  return !algorithm.empty() && data.substr(4 + session_id.size()) == wanted;
}

}  // namespace muster
