#include "health/checks/kernel/xid_table.h"

#include <vector>

#include "tests/catch.h"

using namespace muster;

namespace {

// "app", "ignore", or the severity as it is read; `+` a reset once the job has ended.
std::string shown(const XidVerdict& verdict) {
  std::string text = verdict.action == XidAction::act ? text_of(verdict.severity) : "";
  if (verdict.action == XidAction::ignore) text = "ignore";
  if (verdict.action == XidAction::app) {
    CHECK(verdict.fault_class == FaultClass::user);
    text = verdict.severity.on_recurrence == Remedy::reset ? "app>reset" : "app";
  }
  return text + (verdict.resets_at_epilog ? "+" : "");
}

}  // namespace

TEST_CASE("every Xid leads to what its row says") {
  struct Row {
    std::vector<int> xids;
    const char* verdict;
  };
  const Row rows[] = {
      {{8, 11, 25, 80, 13, 31, 37, 43, 108, 137, 60, 68, 69, 82, 83, 84, 86, 88, 89}, "app"},
      {{96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 139}, "app"},
      {{32, 39, 40, 41, 70, 71, 72, 75, 76, 77, 85, 126, 127, 128, 129, 130, 131, 132},
       "app>reset"},
      {{133, 134, 135, 38, 44}, "app>reset"},
      {{45, 14, 106, 107, 141, 152, 153}, "ignore"},
      {{94}, "app+"},
      {{46, 109, 158, 110, 155, 169, 64, 74}, "!reset"},
      {{62, 119, 120}, "!reset>reboot"},
      {{48, 171, 172, 95, 140}, "!reset>rma"},
      {{136, 143}, "reset>rma"},
      {{63, 156}, "warn+"},
      {{157}, "drain>rma"},
      {{144, 145, 146, 147, 148, 149, 150, 168, 154}, "drain"},
      {{79}, "!reboot>rma"},
      {{167, 173}, "!reboot"},
      {{151}, "reboot"},
      {{61}, "reset"},
      {{54}, "rma"},
      {{121}, "warn>drain"},
      {{56, 57, 58, 65, 66, 67, 73, 81, 92, 93, 142, 159, 160, 161, 162, 163, 164, 165}, "warn"},
      {{166, 170}, "warn"},
      {{1, 12, 90, 138, 174, 999, 0, 99999}, "warn"},  // in no row
  };
  for (const Row& row : rows) {
    for (const int xid : row.xids) {
      INFO(xid);
      CHECK(shown(verdict_of_xid(xid)) == row.verdict);
    }
  }
  CHECK(verdict_of_xid(78).severity == CheckSeverity{Remedy::drain, {}, false});
  CHECK(verdict_of_xid(78).fault_class == FaultClass::setup);
}

TEST_CASE("a code has a meaning, or is not in the table") {
  for (const int xid : {39, 40, 41}) CHECK(xid_meaning(xid) == "copy engine error");
  CHECK(xid_meaning(79) == "the GPU fell off the bus");
  for (const int xid : {0, 12, 174}) CHECK(xid_meaning(xid) == "not in the table");
}

TEST_CASE("an NVLink fault is judged by its line") {
  for (int xid = 144; xid <= 150; ++xid) {
    CHECK(shown(verdict_of_xid(xid, true)) == "!reset");
    CHECK(shown(verdict_of_xid(xid, false)) == "warn");
    CHECK(shown(verdict_of_xid(xid, std::nullopt)) == "drain");
  }
  CHECK(shown(verdict_of_xid(79, false)) == "!reboot>rma");
}

TEST_CASE("the driver's action leads to what it says") {
  CHECK(shown(verdict_of(DriverAction::none)) == "ignore");
  CHECK(shown(verdict_of(DriverAction::gpu_reset)) == "!reset");
  CHECK(shown(verdict_of(DriverAction::node_reboot)) == "!reboot");
  CHECK(shown(verdict_of(DriverAction::drain_p2p)) == "!drain");
  CHECK(shown(verdict_of(DriverAction::drain_and_reset)) == "reset");
  CHECK(shown(verdict_of(DriverAction::restart_imex)) == "drain");
  CHECK(verdict_of(DriverAction::restart_imex).fault_class == FaultClass::setup);
  CHECK(shown(verdict_of(DriverAction::bus_reset)) == "!reboot");
  CHECK(shown(verdict_of(DriverAction::system_reboot)) == "!reboot");
  CHECK(shown(verdict_of(DriverAction::other)) == "drain");
}

TEST_CASE("every SXid is in its class") {
  using Word = SxidLine::Word;
  const std::vector<int> log{10001, 10002, 10004, 10005, 11012, 11021, 11022, 11023, 12021,
                             12023, 15008, 15011, 19049, 19055, 19057, 19059, 19062, 19065,
                             19068, 19071, 20001, 20009, 20012, 22013, 24001, 24002, 24003};
  for (const int sxid : log) CHECK(class_of_sxid(sxid, Word::fatal) == SxidClass::log);
  for (const int sxid : {11004, 12028, 19084}) {
    CHECK(class_of_sxid(sxid, Word::nonfatal) == SxidClass::reboot);
  }
  for (const int sxid :
       {11001, 11009, 11013, 11018, 11019, 11020, 12001, 12002, 12022, 12024, 12025,
        12026, 12027, 12030, 12031, 12032, 14017, 15001, 15006, 15009, 15010, 15012,
        15013, 19047, 19048, 19054, 19056, 19058, 19060, 19061, 19063, 19064, 19066,
        19067, 19069, 19070, 20034, 22012, 24004, 24005, 24006, 24007}) {
    INFO(sxid);
    CHECK(class_of_sxid(sxid, Word::none) == SxidClass::potentially_fatal);
  }
  for (const int sxid : {10003, 12020, 22003, 22011, 23001, 23002, 23009, 23016, 23017}) {
    CHECK(class_of_sxid(sxid, Word::nonfatal) == SxidClass::always_fatal);
  }
  CHECK(class_of_sxid(22012, Word::nonfatal) == SxidClass::log);
  CHECK(class_of_sxid(28006, Word::nonfatal) == SxidClass::log);
  CHECK(class_of_sxid(28006, Word::fatal) == SxidClass::potentially_fatal);
  CHECK(class_of_sxid(28006, Word::none) == SxidClass::unlisted);
  CHECK(class_of_sxid(23018, Word::none) == SxidClass::unlisted);
}

TEST_CASE("an SXid's class leads to what its row says") {
  CHECK(text_of(severity_of(SxidClass::log, true)) == "warn");
  CHECK(text_of(severity_of(SxidClass::unlisted, true)) == "warn");
  CHECK(text_of(severity_of(SxidClass::reboot, false)) == "!reboot");
  CHECK(text_of(severity_of(SxidClass::potentially_fatal, false)) == "drain");
  CHECK(text_of(severity_of(SxidClass::potentially_fatal, true)) == "!reset");
  CHECK(text_of(severity_of(SxidClass::always_fatal, false)) == "!reboot>rma");
}
