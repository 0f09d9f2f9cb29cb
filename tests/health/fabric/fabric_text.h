// `ibnetdiscover -p` about a whole fabric, kept as files in tests/health/data: of infiniband-diags
// 44 on ibsim 0.10 with opensm 3.3. 16 hosts n1 to n16, four below each of leaf1 to leaf4, which
// have a cable to each of spine1 to spine4; or with two adapters each below the same leaf.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace muster {

inline const std::string one_rail = "fabric-16-hosts";
inline const std::string two_rails = "fabric-16-hosts-2-rails";

inline std::string fabric_text(const std::string& fabric, const std::string& kind) {
  const auto path = std::filesystem::path(MUSTER_SOURCE_DIR) / "tests/health/data" /
                    (fabric + "." + kind + ".txt");
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace muster
