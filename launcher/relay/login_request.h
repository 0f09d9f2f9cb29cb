// The one thing that is signed for a relay: the request to log in over ssh, as exactly one user and
// with exactly one key (RFC 4252, section 7). Pure.
#pragma once

#include <string_view>

namespace muster {

// `data` is what an ssh client has to sign for the login, and nothing is before or behind it.
bool is_login_request(std::string_view data, std::string_view user, std::string_view public_key);

}  // namespace muster
