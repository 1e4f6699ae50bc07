"""`hwheel deliver`: messages are held until they are due, on Spark; the job is in hwheel.spark.deliver."""
