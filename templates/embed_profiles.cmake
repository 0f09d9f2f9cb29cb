# Writes OUTPUT, a C++ source with the text of every DIRECTORY/*.yml; run as cmake -P.
file(GLOB paths ${DIRECTORY}/*.yml)
list(SORT paths)
set(rows "")
foreach(path IN LISTS paths)
  get_filename_component(name ${path} NAME_WE)
  file(READ ${path} text)
  string(APPEND rows "      {\"${name}\", R\"yaml(${text})yaml\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"templates/profile/shipped.h\"

namespace muster {

const std::vector<ShippedProfile>& shipped_profiles() {
  static const std::vector<ShippedProfile> table = {
${rows}  };
  return table;
}

}  // namespace muster
")
