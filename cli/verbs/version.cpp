// `muster version`.
#include <nlohmann/json.hpp>

#include "cli/client/start.h"
#include "cli/terminal/document.h"
#include "cli/terminal/terminal.h"
#include "cli/verbs/verbs.h"

namespace muster {

void add_version(CommandLine& line) {
  line.verb({"version", "Print which build this is"}, [](Arguments&) {
    return [](const CommonOptions& common) {
      const std::string build = own_build_id();
      if (!wants_table(common)) {
        return print_document(Document{{"version", MUSTER_VERSION}, {"build_id", build}}, common);
      }
      write_all(Stream::out, "muster " MUSTER_VERSION " (build " + build + ")\n");
      return 0;
    };
  });
}

}  // namespace muster
