"""Is a scheduler better that learns from ended jobs, on logs that tell users and time limits? See README.md."""
