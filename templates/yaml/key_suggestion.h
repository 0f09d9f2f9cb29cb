// What to write instead of an unknown key. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace muster {

// In this order: another word for a key legal here, a key that belongs under another map, a near
// miss of a key legal here. Empty if nothing fits.
// `here`: the path of the map, which no key is sent to.
std::string suggest_key(std::string_view key, const std::vector<std::string>& legal_here,
                        std::string_view here);

}  // namespace muster
