// Bit error rates as ibdiagnet finds them, and what they make of each cable. Of HDR, NDR and faster
// links symbol errors count, of EDR effective ones: those that are left after correction (NVIDIA's
// manual of ibdiagnet, "Bit Error Rate"). Plain data and pure functions.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "health/fabric/fabric.h"
#include "health/fabric/judges.h"
#include "health/fabric/line_feed.h"

namespace muster {

enum class BerKind { symbol, effective, other };

// A row of a table of warnings or errors.
struct BerWarning {
  std::uint64_t node_guid = 0;
  std::uint64_t port_guid = 0;
  int port = 0;
  BerKind kind = BerKind::other;
  std::string event;  // "BER_THRESHOLD_EXCEEDED"
  std::string row;
};

struct BerReading {
  std::vector<BerWarning> warnings;
  std::set<FabricEnd> measured;  // each by the GUID of its node and of its port
  std::string error;             // empty: the tool answered
  bool is_missing = false;       // the tool is not installed
  bool is_cut = false;
  int skipped_rows = 0;
  bool is_whole() const { return error.empty() && !is_cut && skipped_rows == 0; }
};

// ibdiagnet2.db_csv as it comes, of which hundreds of MiB are of other matters: tables between
// "START_NAME" and "END_NAME", the first line of which names the columns. Those whose name has
// "BER" in it and begins with WARNINGS or ERRORS are warnings; others, and those of PHY_DB, name
// the ports that were measured.
class BerReader {
 public:
  void feed(std::string_view bytes);
  BerReading done();  // nothing more comes

 private:
  struct Columns {
    int node = -1;
    int port_guid = -1;
    int port = -1;
    int event = -1;
  };
  void take_line(std::string_view line);
  void take_header(std::string_view line);
  bool take_row(std::string_view line);

  BerReading reading_;
  LineFeed lines_;
  bool is_in_table_ = false;
  bool is_header_due_ = false;
  bool is_of_interest_ = false;
  bool has_warnings_ = false;
  BerKind kind_ = BerKind::other;
  Columns columns_;
};

// fab.ber
FabricFindings judge_fabric_ber(const BerReading& reading, const Fabric& links,
                                const HealthProfile& profile);

}  // namespace muster
