# Writes OUTPUT, a C++ source in which FUNCTION (declared in HEADER) gives a TYPE of name and text
# for every DIRECTORY/*.yml; run as cmake -P.
file(GLOB paths ${DIRECTORY}/*.yml)
list(SORT paths)
set(rows "")
foreach(path IN LISTS paths)
  get_filename_component(name ${path} NAME_WE)
  file(READ ${path} text)
  string(APPEND rows "      {\"${name}\", R\"yaml(${text})yaml\"},\n")
endforeach()
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

namespace muster {

const std::vector<${TYPE}>& ${FUNCTION}() {
  static const std::vector<${TYPE}> table = {
${rows}  };
  return table;
}

}  // namespace muster
")
