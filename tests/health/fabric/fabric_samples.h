// A fabric of five adapters, three switches. Texts of infiniband-diags 44 on ibsim 0.10, some lines
// left out where a comment says so.
#pragma once

#include <string>
#include <string_view>

#include "health/fabric/readers.h"

namespace muster::fabric_samples {

inline FileReading said(std::string_view text) {
  return {std::string(text), "", false};
}
inline FileReading failed(std::string_view error) {
  return {"", std::string(error), false};
}
// `text` with each `from` replaced.
inline std::string replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string all(text);
  for (std::size_t at = 0; (at = all.find(from, at)) != std::string::npos; at += to.size()) {
    all.replace(at, from.size(), to);
  }
  return all;
}
// Without the lines that hold `word`.
inline std::string without(std::string_view text, std::string_view word) {
  std::string kept;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n') + 1);
    if (line.find(word) == std::string_view::npos) kept += line;
    text.remove_prefix(line.size());
  }
  return kept;
}

// leaf1 has n1 mlx5_0, n1 HCA-2 and n2 mlx5_0; leaf2 has n3 and n4; spine1 has two cables to leaf1
// and one to leaf2. Open ports of the switches are left out but one.
inline constexpr std::string_view discovered =
    "CA     8  1 0x0000000000100009 4x HDR - SW     3  2 0x0000000000200001 "
    "( 'n4 mlx5_0' - 'leaf2' )\n"
    "CA     7  1 0x0000000000100007 4x HDR - SW     3  1 0x0000000000200001 "
    "( 'n3 mlx5_0' - 'leaf2' )\n"
    "SW     3  8 0x0000000000200001 4x SDR                                    'leaf2'\n"
    "SW     3  7 0x0000000000200001 4x HDR - SW     4  3 0x0000000000200002 "
    "( 'leaf2' - 'spine1' )\n"
    "SW     3  2 0x0000000000200001 4x HDR - CA     8  1 0x0000000000100009 "
    "( 'leaf2' - 'n4 mlx5_0' )\n"
    "SW     3  1 0x0000000000200001 4x HDR - CA     7  1 0x0000000000100007 "
    "( 'leaf2' - 'n3 mlx5_0' )\n"
    "SW     4  3 0x0000000000200002 4x HDR - SW     3  7 0x0000000000200001 "
    "( 'spine1' - 'leaf2' )\n"
    "SW     4  2 0x0000000000200002 4x HDR - SW     2  8 0x0000000000200000 "
    "( 'spine1' - 'leaf1' )\n"
    "SW     4  1 0x0000000000200002 4x HDR - SW     2  7 0x0000000000200000 "
    "( 'spine1' - 'leaf1' )\n"
    "CA     5  1 0x0000000000100003 4x HDR - SW     2  2 0x0000000000200000 "
    "( 'n1 HCA-2' - 'leaf1' )\n"
    "CA     6  1 0x0000000000100005 4x HDR - SW     2  3 0x0000000000200000 "
    "( 'n2 mlx5_0' - 'leaf1' )\n"
    "SW     2  8 0x0000000000200000 4x HDR - SW     4  2 0x0000000000200002 "
    "( 'leaf1' - 'spine1' )\n"
    "SW     2  7 0x0000000000200000 4x HDR - SW     4  1 0x0000000000200002 "
    "( 'leaf1' - 'spine1' )\n"
    "SW     2  3 0x0000000000200000 4x HDR - CA     6  1 0x0000000000100005 "
    "( 'leaf1' - 'n2 mlx5_0' )\n"
    "SW     2  2 0x0000000000200000 4x HDR - CA     5  1 0x0000000000100003 "
    "( 'leaf1' - 'n1 HCA-2' )\n"
    "SW     2  1 0x0000000000200000 4x HDR - CA     1  1 0x0000000000100001 "
    "( 'leaf1' - 'n1 mlx5_0' )\n"
    "CA     1  1 0x0000000000100001 4x HDR - SW     2  1 0x0000000000200000 "
    "( 'n1 mlx5_0' - 'leaf1' )\n";

// The same fabric, all well.
inline constexpr std::string_view linked =
    "0x0000000000100009 \"                     n4 mlx5_0\"      8    1[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200001      3    2[  ] \"leaf2\" (Could be 12X )\n"
    "0x0000000000100007 \"                     n3 mlx5_0\"      7    1[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200001      3    1[  ] \"leaf2\" (Could be 12X )\n"
    "0x0000000000200001 \"                         leaf2\"      3    1[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000100007      7    1[  ] \"n3 mlx5_0\" (Could be 12X )\n"
    "0x0000000000200001 \"                         leaf2\"      3    2[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000100009      8    1[  ] \"n4 mlx5_0\" (Could be 12X )\n"
    "0x0000000000200001 \"                         leaf2\"      3    7[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200002      4    3[  ] \"spine1\" (Could be 12X )\n"
    "0x0000000000200001 \"                         leaf2\"      3    8[  ] ==(                "
    "Down/ "
    "Polling)==>             [  ] \"\" ( )\n"
    "0x0000000000200002 \"                        spine1\"      4    1[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200000      2    7[  ] \"leaf1\" (Could be 12X )\n"
    "0x0000000000200002 \"                        spine1\"      4    2[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200000      2    8[  ] \"leaf1\" (Could be 12X )\n"
    "0x0000000000200002 \"                        spine1\"      4    3[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200001      3    7[  ] \"leaf2\" (Could be 12X )\n"
    "0x0000000000100003 \"                      n1 HCA-2\"      5    1[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200000      2    2[  ] \"leaf1\" (Could be 12X )\n"
    "0x0000000000100005 \"                     n2 mlx5_0\"      6    1[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200000      2    3[  ] \"leaf1\" (Could be 12X )\n"
    "0x0000000000200000 \"                         leaf1\"      2    1[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000100001      1    1[  ] \"n1 mlx5_0\" (Could be 12X )\n"
    "0x0000000000200000 \"                         leaf1\"      2    2[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000100003      5    1[  ] \"n1 HCA-2\" (Could be 12X )\n"
    "0x0000000000200000 \"                         leaf1\"      2    3[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000100005      6    1[  ] \"n2 mlx5_0\" (Could be 12X )\n"
    "0x0000000000200000 \"                         leaf1\"      2    7[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200002      4    1[  ] \"spine1\" (Could be 12X )\n"
    "0x0000000000200000 \"                         leaf1\"      2    8[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200002      4    2[  ] \"spine1\" (Could be 12X )\n"
    "0x0000000000100001 \"                     n1 mlx5_0\"      1    1[  ] ==( 4X        53.125 "
    "Gbps "
    "Active/  LinkUp)==>  0x0000000000200000      2    1[  ] \"leaf1\" (Could be 12X )\n";

// The topology of two nodes of it, an adapter of each form.
inline constexpr std::string_view topology =
    "#\n"
    "# Topology file: generated on Sun Nov 22 12:20:29 2026\n"
    "#\n"
    "# Initiated from node 0000000000100000 port 0000000000100001\n"
    "\n"
    "vendid=0x0\n"
    "devid=0x0\n"
    "sysimgguid=0x200000\n"
    "switchguid=0x200000(200000)\n"
    "Switch\t8 \"S-0000000000200000\"\t\t# \"leaf1\" base port 0 lid 2 lmc 0\n"
    "[1]\t\"H-0000000000100000\"[1](100001) \t\t# \"n1 mlx5_0\" lid 1 4xHDR\n"
    "[7]\t\"S-0000000000200002\"[1]\t\t# \"spine1\" lid 4 4xSDR\n"
    "\n"
    "vendid=0x0\n"
    "devid=0x0\n"
    "sysimgguid=0x100000\n"
    "caguid=0x100000\n"
    "Ca\t1 \"H-0000000000100000\"\t\t# \"n1 mlx5_0\"\n"
    "[1](100001) \t\"S-0000000000200000\"[1]\t\t# lid 1 lmc 0 \"leaf1\" lid 2 4xHDR\n";

inline constexpr std::string_view counted =
    "Errors for 0x200002 \"spine1\"\n"
    "   GUID 0x200002 port ALL: [PortRcvErrors == 7] [PortXmitWait == 9] [PortXmitData == 23616 "
    "(92.250KB)]\n"
    "   GUID 0x200002 port 3: [PortRcvErrors == 7] [PortXmitWait == 9] [PortXmitData == 7776 "
    "(30.375KB)] [PortRcvData == 8208 (32.062KB)]\n"
    "       Link info:      4   3[  ] ==( 4X           2.5 Gbps Active/  LinkUp)==>  "
    "0x0000000000200001      3    7[  ] \"leaf2\" (Could be 12X Could be 10.0 Gbps)\n"
    "Errors for \"n2 mlx5_0\"\n"
    "   GUID 0x100005 port 1: [SymbolErrorCounter == 42] [PortXmitData == 1440 (5.625KB)]\n"
    "\n"
    "## Summary: 8 nodes checked, 2 bad nodes found\n"
    "##          29 ports checked, 2 ports have errors beyond threshold\n"
    "## Thresholds: \n"
    "## Suppressed:\n";
inline constexpr std::string_view no_errors =
    "\n"
    "## Summary: 8 nodes checked, 0 bad nodes found\n"
    "##          29 ports checked, 0 ports have errors beyond threshold\n"
    "## Thresholds: \n"
    "## Suppressed:\n";

inline constexpr std::string_view manager =
    "sminfo: sm lid 1 sm guid 0x100001, activity count 170 priority 0 state 3 SMINFO_MASTER\n";

inline constexpr FabricEnd n2_end{0x100005, 1};
inline const Fabric& linked_fabric() {
  static const Fabric fabric = read_iblinkinfo(said(linked));
  return fabric;
}

}  // namespace muster::fabric_samples
